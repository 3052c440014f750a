"""Promises in words: README code and docstrings run, the package is light, the wheel works elsewhere."""

import ast
import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import rayhull as rh
from rayhull.nn.options import LayerOptions
from rayhull.sets.reading import GivenSides

ROOT = Path(__file__).parent.parent
MARKED = [
    "README.md",
    *(f"docs/{name}.md" for name in ("layer", "projection", "measured", "learning", "learning_tables")),
]
OPTIONAL = ["matplotlib", "osqp", "daqp", "piqp", "clarabel", "onnx", "onnxruntime", "huggingface_hub", "ppl"]


def modules():
    for info in pkgutil.walk_packages(rh.__path__, "rayhull."):
        yield info.name


@pytest.mark.parametrize("name", sorted(modules()))
def test_docstring_examples_run(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"an extra is missing: {error}")
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(module, optionflags=flags).failed == 0


def test_every_ready_made_set_and_layer_shows_an_example():
    for name in rh.__all__:
        item = getattr(rh, name)
        if callable(item) and not (isinstance(item, type) and issubclass(item, Exception)):
            assert ">>>" in (item.__doc__ or ""), f"{name} has no example"


def public_calls() -> Iterator[tuple[str, object, list[str]]]:
    """Functions, constructors and methods that a user meets: name, what help() shows, and arguments."""
    rooms = rh.distributions, rh.testing
    found = {name: getattr(rh, name) for name in rh.__all__} | {
        n: getattr(room, n) for room in rooms for n in vars(room)
    }
    for name, item in found.items():
        if not getattr(item, "__module__", "").startswith("rayhull") or name.startswith("_"):
            continue
        if not inspect.isclass(item):
            yield name, item, [*inspect.signature(item).parameters]
            continue
        if inspect.isfunction(item.__init__):
            yield name, item, [*inspect.signature(item.__init__).parameters][1:]
        for key, own in inspect.getmembers(item, inspect.isroutine):
            if not key.startswith("_") and str(getattr(own, "__module__", "")).startswith("rayhull"):
                yield f"{name}.{key}", own, [*inspect.signature(own).parameters][not inspect.ismethod(own) :]


def test_help_names_every_argument():
    known = {"options": LayerOptions.__annotations__, "sides": GivenSides.__annotations__}
    missing, seen = [], set()
    for name, item, arguments in public_calls():
        text = set(re.findall(r"\w+", (inspect.getdoc(item) or "").split("Examples:")[0]))
        seen.add(name)
        for argument in arguments:
            spread = argument in known and text >= set(known[argument])
            if argument not in text and not spread and not argument.startswith("_") and argument != "unknown":
                missing.append(f"{name}: {argument}")
    assert {"project", "Polyhedron.contains", "MapInto", "Uniform", "assert_feasible"} <= seen
    assert not missing


@pytest.mark.parametrize(
    "page",
    ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (*ROOT.glob("docs/*.md"), *ROOT.glob("docs/start/*.md")))],
)
def test_code_on_a_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a page may write files
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    if page == "README.md":
        assert blocks
    examples = "\n".join(block for block in blocks if ">>>" in block)
    test = doctest.DocTestParser().get_doctest(examples, {}, page, page, 0)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(optionflags=flags)
    runner.run(test)
    assert runner.failures == 0
    shared: dict[str, object] = {}
    for block in blocks:
        if ">>>" not in block:
            exec(compile(block, page, "exec"), shared)


@pytest.mark.parametrize("folder", [".", "docs", "docs/start"])
def test_code_on_a_page_fits_in_88_columns(folder):
    for page in (ROOT / folder).glob("*.md"):
        blocks = re.findall(r"```(?:python|py|sh|cpp)\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not [line for block in blocks for line in block.splitlines() if len(line) > 88], page


def test_every_set_in_the_table_of_sets_can_be_made_as_written():
    text = (ROOT / "docs" / "start" / "which_set.md").read_text(encoding="utf-8")
    calls = [call for call in re.findall(r"`(rh\.[^`]*)`", text) if "(" in call and "..." not in call]
    known = {"rh": rh, "P": rh.simplex(3), "Q": rh.simplex(2), "n": 5, "d": 3, "L": 1, "peak": 1, "total": 1}
    known |= {"levels": [0.1, 0.9], "edges": [(0, 1)], "shape": (4, 4), "tiles": (2, 2), "width": 1, "cap": 1}
    known |= {"points": [[0, 0], [1, 1]], "S": [[1, 1], [1, 0], [0, 1]]}
    known |= {"up": 1, "down": 1, "steps": 4, "power": 1, "energy": 2, "efficiency": 0.5}
    known |= {"rows": [1, 1], "columns": [1, 1]} | dict(zip("abc", rh.variables("a", "b", "c"), strict=True))
    known["coal"], known["gas"] = rh.variables("coal", "gas")
    assert len(calls) >= 12
    for call in calls:
        assert eval(call, known).dim, call


def test_every_warning_that_is_explained_is_one_that_we_give():
    page = (ROOT / "docs" / "start" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r'^\| a warning: "([^"]+)"', page, flags=re.MULTILINE)
    given = "".join(path.read_text(encoding="utf-8") for path in Path(rh.__file__).parent.glob("nn/*.py"))
    assert len(quoted) >= 2
    assert all(words in given for words in quoted), quoted


@pytest.mark.parametrize("peer", ["cvxpylayers", "moreau", "qpth", "rayen"])
@pytest.mark.filterwarnings("ignore")  # theirs
def test_a_peers_own_code_runs_where_it_is_installed(peer):
    pytest.importorskip(peer)
    text = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
    shared: dict[str, object] = {}
    for fence, block in re.findall(r"```(python|py)\n(.*?)```", text, flags=re.DOTALL):
        if fence == "python" or peer in block:
            exec(compile(block, "peers.md", "exec"), shared)


def test_every_public_name_is_listed_once_and_loads():
    assert sorted(rh.__all__, key=str) == sorted(set(rh.__all__), key=str)
    for name in rh.__all__:
        assert getattr(rh, name) is not None
    assert dir(rh) == sorted(rh.__all__)  # and none of what this file imports for itself
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rh.nothing  # noqa: B018


def test_type_checkers_are_told_the_names_that_are_loaded():
    lines = (ROOT / "src" / "rayhull" / "__init__.py").read_text(encoding="utf-8").splitlines()
    told = [re.fullmatch(r"    from rayhull\.?([\w.]*) import (\w+) as \2", line) for line in lines]
    homes = {found[2]: found[1] for found in told if found}
    assert homes == {**dict.fromkeys(rh._ROOMS, ""), **rh._MODULE_OF}


def test_sides_of_a_first_call_load_no_algebra() -> None:
    """torch.broadcast_shapes loads SymPy, which takes a second."""
    code = (
        "import sys, torch, rayhull as rh\n"
        "head = rh.Constrained(4, rh.sum_to(1, 3) & rh.nonnegative(3))\n"
        "head(torch.randn(2, 4), b_eq=torch.tensor([2.0]))\n"
        "rh.project(rh.nonnegative(3), torch.ones(5, 3), upper=torch.ones(1, 3))\n"
        "assert 'sympy' not in sys.modules\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr


def test_rooms_are_attributes_and_import_rayhull_stays_light():
    code = (
        "import sys, rayhull as rh\n"
        "assert not {'torch', 'numpy', 'scipy'} & set(sys.modules)\n"
        "rh.conversion.cache.info\n"
        "assert 'torch' not in sys.modules\n"
        "try: rh.nn.hub.HubConstrained\n"
        "except rh.errors.MissingExtraError: pass\n"
        "print(rh.nn.export.to_onnx.__name__, rh.testing.assert_feasible.__name__, rh.distributions.Uniform.__name__)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.stdout.strip() == "to_onnx assert_feasible Uniform", out.stderr


def test_every_public_name_has_its_page_in_the_reference():
    page = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   ([A-Za-z_][\w.]*)$", page, re.MULTILINE)
    modules = {*rh._ROOMS, "__version__"}  # their members are listed, or they are no page of their own
    members = {f"distributions.{name}" for name in rh.distributions.__all__}
    assert (set(rh.__all__) - modules) | members <= set(listed)
    assert len(listed) == len(set(listed))
    for name in listed:
        module, _, member = f"rayhull.{name}".rpartition(".")
        assert hasattr(importlib.import_module(module), member), f"there is no rayhull.{name}"


def test_no_docstring_of_the_reference_has_bars_that_sphinx_takes_for_a_substitution():
    page = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    for name in re.findall(r"^   ([A-Za-z_][\w.]*)$", page, re.MULTILINE):
        module, _, member = f"rayhull.{name}".rpartition(".")
        item = getattr(importlib.import_module(module), member)
        own = [inspect.getattr_static(item, key) for key in dir(item) if key[0] != "_"] if inspect.isclass(item) else []
        for text in (str(part.__doc__) for part in (item, *own)):
            words = re.sub(r"``.*?``|^ *(>>>|\.\.\.|\.\. math::).*$", "", text, flags=re.MULTILINE)
            assert not re.search(r"(?<!\w)\|[^\s|]([^|\n]*[^\s|])?\|(?![\w²])", words), f"{name}: {text}"


def imported(node: ast.AST) -> Iterator[str]:
    """The modules that a file imports when it is itself imported: what a function does later does not count."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield child.module
        elif not isinstance(child, ast.FunctionDef | ast.If):  # an If is TYPE_CHECKING
            yield from imported(child)


def from_outside(path: Path, seen: set[Path]) -> set[str]:
    """The packages that importing a file needs, through our own modules too."""
    found: set[str] = set()
    for name in () if path in seen else imported(ast.parse(path.read_text(encoding="utf-8"))):
        seen.add(path)
        if name.partition(".")[0] == "rayhull":
            found |= from_outside(Path(str(importlib.util.find_spec(name).origin)), seen)
        else:
            found.add(name.partition(".")[0])
    return found - set(sys.stdlib_module_names)


def packages_of(extra: str) -> set[str]:
    """What an extra brings, its own extras included, as the names that one imports."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: set[str] = set()
    for line in [*project["dependencies"], *project["optional-dependencies"][extra]]:
        name, more = re.match(r"([\w-]+)(?:\[([\w,]+)\])?", line).groups()
        found |= set().union(*map(packages_of, more.split(","))) if more else {name.lower().replace("-", "_")}
    return found


def test_all_that_the_site_imports_comes_with_the_extra_docs():
    page = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    listed = {name.rpartition(".")[0] for name in re.findall(r"^   ([A-Za-z_][\w.]*)$", page, re.MULTILINE)}
    origins = [importlib.util.find_spec(f"rayhull.{name}".rstrip(".")).origin for name in listed]
    seen: set[Path] = set()
    files = [*map(Path, origins), *(ROOT / "src" / "rayhull").glob("*.py"), *ROOT.glob("examples/*/*.py")]
    needed = set().union(*(from_outside(path, seen) for path in [*files, ROOT / "docs" / "conf.py"]))
    assert {"huggingface_hub", "torch"} <= needed
    named = {"sklearn": "scikit_learn"}
    assert {named.get(name, name) for name in needed} - {"rayhull"} <= packages_of("docs")


def test_the_package_works_without_its_extras():
    code = (
        "import sys\n"
        f"for name in {OPTIONAL!r}: sys.modules[name] = None\n"
        "import torch, rayhull as rh\n"
        "P = rh.checkerboard((8, 8), tiles=(2, 2)) & rh.box(-1, 1)\n"
        "rh.convert(rh.ordered(None, (4, 4)), cache=False)\n"
        "x = rh.Constrained(4, P)(torch.randn(3, 4))\n"
        "y = rh.project(P, torch.randn(3, 8, 8, dtype=torch.float64))\n"
        "print(bool(P.contains(x).all() and P.contains(y).all()))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.stdout.strip() == "True", out.stderr


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_works_outside_the_source_tree(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("rayhull-*.whl")
    code = "import rayhull as rh; print(rh.__file__); print(rh.convert(rh.monotone(4), cache=False))"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(wheel)!r}); {code}"]
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert out.startswith(str(wheel))
    assert "3 rays, 1 line " in out
    import zipfile

    names = zipfile.ZipFile(wheel).namelist()
    assert "rayhull/py.typed" in names
    assert any(name.endswith("LICENSE") for name in names)


@pytest.mark.parametrize("page", MARKED)
def test_the_numbers_on_a_page_are_those_of_the_results_files(page):
    from benchmarks.summary import MARKERS, filled

    text = (ROOT / page).read_text(encoding="utf-8")
    assert MARKERS.search(text)
    assert filled(text) == text
