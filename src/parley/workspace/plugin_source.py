"""What can be said about a plugin's source without running it."""

import ast
import warnings
from collections.abc import Iterator, Mapping


def source_problem(files: Mapping[str, bytes], entry: str, function: str) -> str | None:
    """Why the module cannot work: a syntax error, or no function of that name that takes a message and a config."""
    path = f"{entry}.py" if f"{entry}.py" in files else f"{entry}/__init__.py"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # style is the author's affair
            for name, data in files.items():
                if name.endswith(".py"):
                    compile(data, name, "exec", dont_inherit=True)
            tree = ast.parse(files[path], path)
    except SyntaxError as error:
        return f"{error.filename}, line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:  # NUL bytes, or nested beyond what Python reads
        return f"its module cannot be compiled: {error or type(error).__name__}"
    bound = {name: statement for statement in _statements(tree) for name in _names(statement)}
    if function not in bound:
        return f"{path} has no function {function}(message, config)"
    found = bound[function]
    if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) and not _takes_two(found.args):
        return f"{path}, line {found.lineno}: {function} must take two arguments, (message, config)"
    return None


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements that run when the module is imported, also those under a condition."""
    waiting: list[ast.AST] = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            waiting += reversed(list(ast.iter_child_nodes(node)))


def _names(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield statement.name
        case ast.Import() | ast.ImportFrom():
            yield from (alias.asname or alias.name for alias in statement.names)
        case ast.Assign():
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
            yield name
        case _:
            pass


def _takes_two(arguments: ast.arguments) -> bool:
    positional = len(arguments.posonlyargs) + len(arguments.args)
    needed = positional - len(arguments.defaults)
    keyword_needed = any(default is None for default in arguments.kw_defaults)
    return needed <= 2 and (positional >= 2 or arguments.vararg is not None) and not keyword_needed
