"""Sets in files: cdd text and .npz, whole or refused."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import rayhull as rh
from rayhull.conversion import files
from rayhull.conversion.files import parse_cdd, read, write
from tests import fuzz_files
from tests.zoo import ZOO

SQUARE = """* the unit square, with one row too many
H-representation
begin
 5 3 rational
 0 1 0
 0 0 1
 1 -1 0
 1 0 -1
 3/2 -1/2 -1/3
end
"""


def test_inequalities_are_read_with_our_sign():
    P = parse_cdd(SQUARE, ".ine", "square.ine")
    assert P.A.tolist() == [[-1, 0], [0, -1], [1, 0], [0, 1], [Fraction(1, 2), Fraction(1, 3)]]
    assert P.b[4] == Fraction(3, 2)
    assert P.is_exact
    assert len(P.generators().vertices) == 4


def test_linearity_means_equalities_and_lines():
    P = parse_cdd("H-representation\nlinearity 1 2\nbegin\n2 3 integer\n0 1 0\n1 -1 -1\nend\n", ".ine", "a.ine")
    assert (len(P.inequalities), len(P.equalities)) == (1, 1)
    assert list(P.equalities.names) == ["row 2"]
    G = parse_cdd("V-representation\nlinearity 1 1\nbegin\n3 3 integer\n0 1 1\n1 0 0\n0 1 0\nend\n", ".ext", "a.ext")
    assert (len(G.vertices), len(G.rays), len(G.lines)) == (1, 1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "H-representation\nbegin\n3 3 integer\n0 1 0\n1 -1 -1\n5 1 2\nend\nlinearity 1 2\n",
        "linearity 1 2\nbegin\n3 3 integer\n0 1 0\n1 -1 -1\n5 1 2\nend\nequality 1 2\n",
    ],
    ids=["after the end", "twice"],
)
def test_linearity_counts_wherever_it_stands(text):
    P = parse_cdd(text, ".ine", "a.ine")
    assert tuple(P.equalities.names) == ("row 2",)
    assert tuple(P.inequalities.names) == ("row 1", "row 3")


def test_several_lines_of_linearity_add_up():
    text = "linearity 1 1\nlinearity 1 3\nbegin\n3 3 integer\n0 1 0\n1 -1 -1\n5 1 2\nend\n"
    assert tuple(parse_cdd(text, ".ine", "a.ine").equalities.names) == ("row 1", "row 3")


@pytest.mark.parametrize("option", ["strict_inequality 1 2", "partial_enumeration 1 2", "nonnegative"])
@pytest.mark.parametrize("place", ["before", "after"])
def test_an_option_that_means_another_set_is_refused_by_name(option, place):
    text = f"{option}\n{SQUARE}" if place == "before" else f"{SQUARE}{option}\n"
    with pytest.raises(rh.errors.FileFormatError, match=f"{option.split()[0]} is not supported; "):
        parse_cdd(text, ".ine", "a.ine")


def test_options_that_only_ask_for_output_are_ignored():
    P = parse_cdd(f"a title\n{SQUARE}incidence\nmaximize 0 1 1\n", ".ine", "a.ine")
    assert len(P.inequalities) == 5


@pytest.mark.parametrize(
    ("kind", "word", "message"),
    [
        ("rational", "1e99999999", "is not a number"),
        ("rational", "1e9999", "beyond the range of floats"),
        ("rational", "1/" + "9" * 320, "beyond the range of floats"),
        ("integer", "9" * 320, "beyond the range of floats"),
        ("integer", "9" * 5000, "5000 characters is too long"),
        ("integer", "²", "is not a number"),
        ("integer", "1_000", "is not a number"),
        ("rational", "٣", "is not a number"),
        ("rational", "1/00", "is not a number"),
        ("real", "nan", "is not a number"),
        ("real", "1e999", "beyond the range of floats"),
    ],
)
def test_a_number_that_cannot_be_used_is_refused_at_once(kind, word, message):
    with pytest.raises(rh.errors.FileFormatError, match=message):
        parse_cdd(f"begin\n1 2 {kind}\n1 {word}\nend\n", ".ine", "a.ine")


@pytest.mark.parametrize("size", ["² 3", "1 ²", "-1 3", "9999999999999 2", "1 1"])
def test_a_size_that_is_no_pair_of_counts_is_refused(size):
    with pytest.raises(rh.errors.FileFormatError, match="after 'begin' expected"):
        parse_cdd(f"begin\n{size} integer\n1 2\nend\n", ".ine", "a.ine")


def test_decimals_in_a_rational_file_are_the_fractions_they_say():
    P = parse_cdd("begin\n1 2 rational\n0.1 -2.5e-1\nend\n", ".ine", "a.ine")
    assert (P.b[0], P.A[0, 0]) == (Fraction(1, 10), Fraction(1, 4))


def test_a_cone_may_leave_out_its_apex():
    G = parse_cdd("V-representation\nbegin\n1 3 integer\n0 1 1\nend\n", ".ext", "a.ext")
    assert G.vertices.tolist() == [[0, 0]]


@pytest.mark.parametrize(
    "name", ["triangle", "simplex", "random floats in a box", "equalities and bounds", "whole space"]
)
@pytest.mark.parametrize("suffix", [".ine", ".npz"])
def test_a_set_written_and_read_is_the_same(tmp_path, name, suffix):
    P = ZOO[name]()
    write(tmp_path / f"set{suffix}", P)
    Q = read(tmp_path / f"set{suffix}")
    x = np.concatenate([P.sample(20, seed=0), np.random.default_rng(0).standard_normal((20, *P.shape))])
    np.testing.assert_allclose(Q.violation(x), P.violation(x), atol=1e-12)
    assert Q.is_exact == P.is_exact


@pytest.mark.parametrize("suffix", [".ext", ".npz"])
def test_generators_written_and_read_are_the_same(tmp_path, suffix):
    G = rh.convert(rh.Polyhedron([[3, 1, 0], [1, 10**25, 0]], [1, 1], lower=[0, 0, -np.inf]))
    write(tmp_path / f"g{suffix}", G)
    H = read(tmp_path / f"g{suffix}")
    assert (H.exact_vertices == G.exact_vertices).all()
    np.testing.assert_array_equal(H.lines, G.lines)


def test_fractions_survive_npz_without_pickle(tmp_path):
    P = rh.Polyhedron([[Fraction(1, 3), 1]], [Fraction(1, 7)], shape=(1, 2))
    write(tmp_path / "p.npz", P)
    with np.load(tmp_path / "p.npz", allow_pickle=False) as file:
        assert file["A"].dtype.kind == "U"
    Q = read(tmp_path / "p.npz")
    assert Q.A[0, 0] == Fraction(1, 3)
    assert Q.shape == (1, 2)


def test_bounds_of_python_numbers_keep_infinities_and_floats(tmp_path):
    lower = np.array([-np.inf, Fraction(1, 3), 0.1], dtype=object)
    P = rh.Polyhedron(lower=lower, upper=np.array([5, np.inf, Fraction(7, 2)], dtype=object))
    write(tmp_path / "p.npz", P)
    Q = read(tmp_path / "p.npz")
    assert Q.lower.tolist() == [-np.inf, Fraction(1, 3), 0.1]
    assert Q.upper.tolist() == [5, np.inf, Fraction(7, 2)]
    assert Q.fingerprint == P.fingerprint


def test_sparse_rows_stay_sparse_in_a_file(tmp_path):
    P = rh.monotone(5000)  # 200 MB if it were dense
    write(tmp_path / "p.npz", P)
    assert (tmp_path / "p.npz").stat().st_size < 200_000
    Q = read(tmp_path / "p.npz")
    assert Q.fingerprint == P.fingerprint
    assert sp.issparse(Q.A)


@pytest.mark.parametrize(
    "change",
    [
        {"A.indices": np.array([0, 1_000_000])},
        {"A.indptr": np.array([0, 9])},
        {"A.shape": np.array([1])},
        {"A.data": np.array(["1e99999999", "1"])},
        {"b": np.zeros(7)},
        {"shape": np.array([99])},
        {"lower": np.full(3, np.nan)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_npz_whose_parts_do_not_fit_is_refused(tmp_path, change):
    good = {"A.data": np.ones(2), "A.indices": np.arange(2), "A.indptr": np.array([0, 2]), "A.shape": np.array([1, 3])}
    np.savez(tmp_path / "good.npz", **good)
    assert read(tmp_path / "good.npz").dim == 3
    np.savez(tmp_path / "bad.npz", **(good | change))
    with pytest.raises(rh.errors.FileFormatError):
        read(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("suffix", "text", "message"),
    [
        (".ine", SQUARE[: len(SQUARE) - 30], "cut short"),
        (".ine", SQUARE.replace("end\n", ""), "stops after 15 of 15 numbers, with no 'end'"),
        (".ine", SQUARE.replace("5 3 rational", "6 3 rational"), "promises 18 numbers but has 15"),
        (".ine", SQUARE.replace("3/2", "3/0"), "'3/0' is not a number"),
        (".ine", SQUARE.replace("rational", "integer"), "'3/2' is not a number of type integer"),
        (".ine", SQUARE.replace("rational", "complex"), "integer, rational or real"),
        (".ine", SQUARE.replace("5 3 rational", "five 3"), "after 'begin' expected"),
        (".ine", SQUARE.replace("H-", "V-"), "says V-representation, but its name promises H-representation"),
        (".ine", "", "no line 'begin'"),
        (".ine", SQUARE.replace("begin", "linearity 1 9\nbegin"), "linearity"),
        (".ext", "V-representation\nbegin\n1 3 integer\n2 1 1\nend\n", "starts with 1"),
    ],
)
def test_a_file_that_is_not_whole_is_refused(suffix, text, message):
    with pytest.raises(rh.errors.FileFormatError, match=message):
        parse_cdd(text, suffix, f"set{suffix}")


def test_files_that_are_not_what_their_name_says_are_refused(tmp_path):
    (tmp_path / "a.npz").write_text(SQUARE)
    (tmp_path / "a.ine").write_bytes(bytes(range(256)))
    (tmp_path / "a.dat").write_text(SQUARE)
    np.savez(tmp_path / "b.npz", something=np.ones(3))
    np.savez(tmp_path / "c.npz", A=np.array([[object()]], dtype=object))
    for name, message in [
        ("a.npz", "damaged or not an .npz"),
        ("a.ine", "not a text file"),
        ("a.dat", "expected .ine, .ext or .npz"),
        ("b.npz", "holds .'something'."),
        ("c.npz", "damaged"),
    ]:
        with pytest.raises(rh.errors.FileFormatError, match=message):
            read(tmp_path / name)
    with pytest.raises(rh.errors.FileFormatError, match="inequalities go to .ine"):
        write(tmp_path / "x.ext", rh.simplex(2))


@pytest.mark.parametrize("suffix", [".ine", ".npz"])
def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"set{suffix}"
    link = tmp_path / f"link{suffix}"
    link.symlink_to(path)
    write(link, rh.simplex(3))
    assert link.is_symlink()
    before = path.read_bytes()

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        write(path, rh.simplex(4))
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"link{suffix}", f"set{suffix}"]


def test_files_changed_at_random_are_read_as_they_are_or_refused():
    found = fuzz_files.run(seconds=2.0, seed=0)
    assert sum(found.values()) > 5  # more on a machine that is not busy


def test_the_fuzz_of_files_notices_numbers_that_are_written_wrong(monkeypatch):
    monkeypatch.setattr(files, "_text", lambda value, kind: f"{float(value) + 1:g}")
    with pytest.raises(AssertionError, match="wrong on numpy"):
        fuzz_files.run(seconds=20.0, seed=0)
