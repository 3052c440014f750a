"""Conversions are remembered, and never wrongly."""

import numpy as np
import pytest

import rayhull as rh
from rayhull.conversion import cache, rays
from tests.zoo import feasible_cone


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RAYHULL_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "SLOW", 0.0)  # everything counts as slow
    cache._memory.clear()
    yield tmp_path
    cache._memory.clear()


@pytest.fixture
def calls(monkeypatch):
    seen = []
    original = rays.extreme_rays
    monkeypatch.setattr(rays, "extreme_rays", lambda C, **o: seen.append(C.shape) or original(C, **o))
    return seen


def test_a_second_conversion_comes_from_memory_and_a_third_from_disk(calls, own_folder):
    P = feasible_cone(10, 4, 0)
    first = rh.convert(P)
    second = rh.convert(P)
    cache._memory.clear()
    third = rh.convert(P)
    assert len(calls) == 1
    assert len(list(own_folder.glob("*.npz"))) == 1
    for G in (second, third):
        np.testing.assert_array_equal(G.exact.rays, first.exact.rays)


def test_what_is_returned_can_be_changed_without_harm(calls):
    P = feasible_cone(10, 4, 0)
    G = rh.convert(P)
    expected = G.rays.copy()
    G.rays[:] = 0
    np.testing.assert_array_equal(rh.convert(P).rays, expected)


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "changed"])
def test_a_damaged_file_is_removed_and_computed_anew(calls, own_folder, damage):
    P = feasible_cone(10, 4, 0)
    first = rh.convert(P)
    (file,) = own_folder.glob("*.npz")
    content = file.read_bytes()
    if damage == "changed":  # a valid archive with other rays
        np.savez_compressed(file, rays=np.zeros((3, 4), np.int64), digest=np.array("x"), exact=True)
    else:
        file.write_bytes({"cut": content[: len(content) // 2], "garbage": b"not an archive", "empty": b""}[damage])
    cache._memory.clear()
    again = rh.convert(P)
    np.testing.assert_array_equal(again.exact.rays, first.exact.rays)
    assert len(calls) == 2
    cache._memory.clear()
    rh.convert(P)
    assert len(calls) == 2  # the new file is good


def test_quick_conversions_leave_no_file(own_folder, monkeypatch):
    monkeypatch.setattr(cache, "SLOW", 0.5)
    rh.convert(feasible_cone(10, 4, 0))
    assert not list(own_folder.iterdir())


def test_big_integers_go_to_disk_and_back(own_folder):
    P = rh.Polyhedron([[10**30, -1, 1], [1, 10**25, -7], [-(10**20), -3, 10**28], [1, -1, -1]])
    first = rh.convert(P)
    assert first.exact.rays.dtype == object
    cache._memory.clear()
    assert (rh.convert(P).exact.rays == first.exact.rays).all()


def test_a_folder_that_cannot_be_written_is_no_error(own_folder, monkeypatch):
    blocked = own_folder / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("RAYHULL_CACHE", str(blocked / "sub"))
    assert len(rh.convert(feasible_cone(10, 4, 0)).rays)


def test_cache_off_reads_and_writes_nothing(calls, own_folder):
    for _ in range(2):
        rh.convert(feasible_cone(10, 4, 0), cache=False)
    assert len(calls) == 2
    assert not list(own_folder.iterdir())
