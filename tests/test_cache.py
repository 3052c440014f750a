"""Conversions are remembered, and never wrongly."""

import importlib
import os
import shutil

import numpy as np
import pytest

import rayhull as rh
from rayhull.conversion import cache
from tests.zoo import cross_polytope, cyclic_cone, feasible_cone


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RAYHULL_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "SLOW", 0.0)  # everything counts as slow
    cache.clear()
    yield tmp_path
    cache.forget()


@pytest.fixture
def calls(monkeypatch):
    module = importlib.import_module("rayhull.conversion.convert")
    seen = []
    original = module.extreme_rays
    monkeypatch.setattr(module, "extreme_rays", lambda C, **rest: seen.append(C.shape) or original(C, **rest))
    return seen


def test_a_second_conversion_comes_from_memory_and_a_third_from_disk(calls, own_folder):
    P = feasible_cone(10, 4, 0)
    first = rh.convert(P)
    second = rh.convert(P)
    cache.forget()
    third = rh.convert(P)
    assert len(calls) == 1
    assert len(list(own_folder.glob("*.npz"))) == 1
    for G in (second, third):
        np.testing.assert_array_equal(G.exact.rays, first.exact.rays)


def test_floats_come_back_from_disk_too(calls):
    P = feasible_cone(10, 4, 0, integers=False)
    first = rh.convert(P)
    cache.forget()
    np.testing.assert_allclose(rh.convert(P).rays, first.rays, rtol=1e-13, atol=1e-14)
    assert len(calls) == 1


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
        np.savez_compressed(file, rays=np.zeros((3, 4), np.int64), digest=np.array("x"))
    else:
        file.write_bytes({"cut": content[: len(content) // 2], "garbage": b"not an archive", "empty": b""}[damage])
    cache.forget()
    again = rh.convert(P)
    np.testing.assert_array_equal(again.exact.rays, first.exact.rays)
    assert len(calls) == 2
    cache.forget()
    rh.convert(P)
    assert len(calls) == 2  # the new file is good


def test_a_file_made_for_another_cone_is_not_believed(calls, own_folder):
    rh.convert(feasible_cone(10, 4, 1))
    (other,) = own_folder.glob("*.npz")
    right = rh.convert(feasible_cone(10, 4, 0))
    (own,) = set(own_folder.glob("*.npz")) - {other}
    shutil.copy(other, own)
    cache.forget()
    np.testing.assert_array_equal(rh.convert(feasible_cone(10, 4, 0)).exact.rays, right.exact.rays)
    assert len(calls) == 3


def test_a_ray_that_is_missing_unseen_is_noticed_by_the_name_of_the_cone(calls, own_folder):
    """No ray of this cone is simple, so edges tell nothing: a list for another cone is told by its digest alone."""
    P = rh.Polyhedron(np.column_stack([-np.ones(8, int), cross_polytope(3).A]))  # the cone over an octahedron
    first = rh.convert(P)
    (file,) = own_folder.glob("*.npz")
    with np.load(file) as content:
        rays = content["rays"][1:]
    np.savez(file, rays=rays, digest=np.array(cache.digest_of("the name of another cone", rays)))
    cache.forget()
    np.testing.assert_array_equal(rh.convert(P).exact.rays, first.exact.rays)
    assert len(calls) == 2


@pytest.mark.parametrize("fault", ["missing", "twice", "outside", "inside", "other order"])
def test_rays_from_disk_are_verified_even_if_their_digest_is_right(calls, own_folder, fault):
    P = cyclic_cone(10, 4)  # simple: the edges tell that a ray is missing
    first = rh.convert(P)
    (file,) = own_folder.glob("*.npz")
    with np.load(file) as content:
        rays = content["rays"]
    wrong = {
        "missing": rays[1:],
        "twice": np.concatenate([rays, rays[:1]]),
        "outside": np.concatenate([rays[1:], -rays[:1]]),
        "inside": np.concatenate([rays, rays[:1] + rays[1:2]]),
        "other order": rays[::-1],  # not wrong
    }[fault]
    np.savez(file, rays=wrong, digest=np.array(cache.digest_of(file.stem, wrong)))
    cache.forget()
    np.testing.assert_array_equal(rh.convert(P).exact.rays, first.exact.rays)
    assert len(calls) == (1 if fault == "other order" else 2)


@pytest.mark.parametrize("thing", ["folder", "pipe", "broken link"])
def test_something_else_under_the_name_of_a_file_neither_stops_nor_harms(own_folder, thing):
    P = feasible_cone(10, 4, 0)
    first = rh.convert(P)
    (file,) = own_folder.glob("*.npz")
    file.unlink()
    if thing == "folder":
        file.mkdir()
    elif thing == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(own_folder / "nowhere")
    cache.forget()
    np.testing.assert_array_equal(rh.convert(P).exact.rays, first.exact.rays)
    assert not list(own_folder.glob("*.part"))


def test_quick_conversions_leave_no_file(own_folder, monkeypatch):
    monkeypatch.setattr(cache, "SLOW", 0.5)
    rh.convert(feasible_cone(10, 4, 0))
    assert not list(own_folder.iterdir())


def test_big_integers_go_to_disk_and_back(own_folder, calls):
    P = rh.Polyhedron([[10**30, -1, 1], [1, 10**25, -7], [-(10**20), -3, 10**28], [1, -1, -1]])
    first = rh.convert(P)
    assert first.exact.rays.dtype == object
    cache.forget()
    assert (rh.convert(P).exact.rays == first.exact.rays).all()
    assert len(calls) == 1


def test_a_folder_that_cannot_be_written_is_no_error(own_folder, monkeypatch):
    blocked = own_folder / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("RAYHULL_CACHE", str(blocked / "sub"))
    assert len(rh.convert(feasible_cone(10, 4, 0)).rays)
    assert cache.info().files == 0
    cache.clear()


def test_cache_off_reads_and_writes_nothing(calls, own_folder):
    for _ in range(2):
        rh.convert(feasible_cone(10, 4, 0), cache=False)
    assert len(calls) == 2
    assert not list(own_folder.iterdir())


def test_the_cache_can_be_seen_and_cleared_without_touching_other_files(calls, own_folder):
    rh.convert(feasible_cone(10, 4, 0))
    mine = own_folder / "results.npz"
    np.savez(mine, x=np.ones(3))
    seen = cache.info()
    assert (seen.folder, seen.files, seen.in_memory) == (own_folder, 1, 1)
    assert seen.bytes > 0
    cache.clear()
    assert list(own_folder.iterdir()) == [mine]
    assert cache.info()[1:] == (0, 0, 0)
    rh.convert(feasible_cone(10, 4, 0))
    assert len(calls) == 2
