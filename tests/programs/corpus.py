"""Files as people have them before Parley comes: what has to be there again, byte by byte, when it goes."""

JSON = {
    "missing": None,
    "empty": "",
    "blank": "\n\n  \n",
    "mark alone": "\ufeff",
    "empty object": "{}",
    "empty object with line": "{}\n",
    "empty object over lines": "{\n}\n",
    "empty object with space": "{ }\n",
    "empty object with comment": "{\n  // nothing here yet\n}\n",
    "one member": '{\n  "theme": "dark"\n}\n',
    "no last line end": '{\n  "theme": "dark"\n}',
    "one line": '{"theme": "dark", "n": 1}',
    "four spaces": '{\n    "theme": "dark",\n    "list": [\n        1,\n        2\n    ]\n}\n',
    "tabs": '{\n\t"theme": "dark",\n\t"a": {\n\t\t"b": null\n\t}\n}\n',
    "windows": '{\r\n  "theme": "dark",\r\n  "a": {}\r\n}\r\n',
    "mark": '\ufeff{\n  "theme": "dark"\n}\n',
    "mark and windows": '\ufeff{\r\n  "theme": "dark"\r\n}',
    "comments": (
        '// above\n{\n  // first\n  "theme": "dark", // why\n  /* last */\n  "n": 1 // one\n  // after\n}\n// below\n'
    ),
    "trailing commas": '{\n  "theme": "dark",\n  "list": [1, 2,],\n}\n',
    "trailing comma and comment": '{\n  "theme": "dark", // why\n}\n',
    "odd layout": '{"a":1\n,"b":   [\n1,2]\n     ,\n"c" : {"d"\n:2}}',
    "text like syntax": '{\n  "a": "// no } comment , here \\" /* nor here */ {",\n  "é": "ü 🙂"\n}\n',
    "empty servers": '{\n  "mcpServers": {},\n  "mcp": {"servers": {}},\n  "hooks": {}\n}\n',
    "empty servers with comment": '{\n  "mcpServers": {\n    // add yours\n  },\n  "hooks": { /* none */ }\n}\n',
    "other servers": (
        '{\n  "mcpServers": {\n    "other": {\n      "command": "npx",\n      "args": ["-y", "x"]\n    }\n  }\n}\n'
    ),
    "other servers on one line": '{"mcpServers": {"other": {"command": "npx"}}, "mcp": {"servers": {"o": {}}}}\n',
    "a server of our name": (
        '{\n  "mcpServers": {\n    "parley": {"command": "golf-parley", "args": []},\n    "z": {}\n'
        '  },\n  "mcp": {"servers": {"parley": {"url": "https://example.com"}}}\n}\n'
    ),
    "other hooks": (
        '{\n  "hooks": {\n    "Stop": [\n      {\n        "hooks": [\n'
        '          {"type": "command", "command": "say done"}\n        ]\n      }\n    ],\n'
        '    "SessionStart": [],\n    "AfterTool": [ ],\n    "stop": [{"command": "say"}]\n  },\n'
        '  "version": 1\n}\n'
    ),
    "hooks and comments": (
        '{\n  "hooks": {\n    "PostToolUse": [\n      // format\n'
        '      {"matcher": "Edit", "hooks": [{"type": "command", "command": "fmt"}]}, // slow\n'
        "      // more to come\n    ],\n  },\n}\n"
    ),
    "nested": (
        '{\n  "a": {\n    "mcpServers": {\n      "parley": {"command": "mine"}\n    },\n'
        '    "hooks": {"Stop": [{"command": "x"}]}\n  }\n}\n'
    ),
    "no version": '{\n  "hooks": {\n    "stop": [\n      {"command": "say"}\n    ]\n  }\n}\n',
}

TOML = {
    "missing": None,
    "empty": "",
    "blank": "\n\n",
    "one key": 'model = "x"\n',
    "no last line end": 'model = "x"',
    "blank line at the end": 'model = "x"\n\n',
    "windows": 'model = "x"\r\n\r\n[tui]\r\ntheme = "dark"\r\n',
    "mark": '\ufeffmodel = "x"\n',
    "comments": "# mine\n\nmodel = 'x' # why\n\n[tui] # look\n# below\n",
    "other servers": ('[mcp_servers.other]\ncommand = "npx"\nargs = ["-y", "x"]\n\n[mcp_servers.other.env]\nA = "1"\n'),
    "long values": (
        'notify = [\n  "a", # first\n  "[not.a.table]",\n]\ntext = """\n[mcp_servers.parley]\n'
        "command = \"no\"\n\"\"\"\n[[profiles]]\nname = '''\n[x]'''\n"
    ),
    "quoted names": (
        '["mcp_servers"."other one"]\ncommand = "x"\n[projects."/home/me/a.b"]\ntrust_level = "trusted"\n'
    ),
    "a table of our name": (
        'model = "x"\n\n[mcp_servers.parley]\n# golf\ncommand = "golf-parley"\nargs = []\n'
        'env = { A = "1" }\n\n[tui]\ntheme = "dark"\n'
    ),
    "a table of our name at the end": '[mcp_servers."parley"]\ncommand = "golf"',
    "servers without one": "[mcp_servers]\n",
}

MARKDOWN = {
    "missing": None,
    "empty": "",
    "blank": "\n",
    "one line": "# Rules\n",
    "no last line end": "# Rules",
    "blank lines at the end": "# Rules\n\n\n",
    "windows": "# Rules\r\n\r\n- be kind\r\n",
    "mark": "\ufeff# Rules\n",
    "long": "# Rules\n\n<!-- a comment -->\n\n```\n<!-- parley -->\n```\n\nBe kind.\n",
}
