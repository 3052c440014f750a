"""Trees over zero sets that skip most pairs of rays: every node keeps the union of the zero sets below it.

Two rays can be adjacent only if they share k - 2 zeros, and a third ray is a witness against them only if it has all
the zeros they share. Both questions are refused for a whole subtree by one look at its union. (The idea is that of bit
pattern trees, Terzer and Stelling 2008.) Nodes lie in preorder with the index to go on at when a subtree is skipped, so
a walk is a loop over one integer: it needs no stack and can stop and go on anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rayhull.conversion._jit import jit, popcount, trailing_zeros
from rayhull.conversion.adjacency import Ints, Words

LEAF = 8  # rays in a leaf, at most (more only where zero sets repeat)
SAMPLE = 32  # rays looked at to choose the bit that splits a node
RECENT = 16  # witnesses tried first: neighbouring pairs often fall to the same ray
BUDGET = 10_000_000  # steps between two looks at the clock: some 50 ms
ONE = np.uint64(1)


@jit
def _splitting_bit(sets: Any, members: Any, begin: int, end: int, counts: Any) -> Any:
    """The bit that splits a sample of the members most evenly, or -1 if all are the same set."""
    words = sets.shape[1]
    size = end - begin
    step = max(1, size // SAMPLE)
    counts[:] = 0
    seen = 0
    for a in range(begin, end, step):
        seen += 1
        for w in range(words):
            bits = sets[members[a], w]
            while bits != 0:
                counts[w * 64 + np.int64(trailing_zeros(bits))] += 1
                bits &= bits - ONE
    best, off = -1, seen
    for bit in range(len(counts)):
        if 0 < counts[bit] < seen and abs(2 * counts[bit] - seen) < off:
            best, off = bit, abs(2 * counts[bit] - seen)
    if best < 0:
        for a in range(begin + 1, end):
            for w in range(words):
                differ = sets[members[a], w] ^ sets[members[begin], w]
                if differ != 0:
                    return w * 64 + np.int64(trailing_zeros(differ))
    return best


@jit
def _partition(sets: Any, members: Any, begin: int, end: int, bit: int) -> int:
    """Move the members with the bit to the front; returns where the others begin."""
    word, mask = bit // 64, ONE << np.uint64(bit % 64)
    low, high = begin, end - 1
    while low <= high:
        if sets[members[low], word] & mask != 0:
            low += 1
        else:
            members[low], members[high] = members[high], members[low]
            high -= 1
    return low


@jit
def build_tree(sets: Any, members: Any) -> Any:
    """Order ``members`` (changed in place) into a tree: unions, begin, end, skip; leaves have skip = own index + 1."""
    words, most = sets.shape[1], max(1, 2 * len(members))
    unions = np.zeros((most, words), np.uint64)
    begin, end, skip = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    counts = np.empty(words * 64, np.int64)
    stack = [(0, len(members))]
    t = 0
    while len(stack) > 0:
        a, b = stack.pop()
        begin[t], end[t] = a, b
        for i in range(a, b):
            for w in range(words):
                unions[t, w] |= sets[members[i], w]
        t += 1
        if b - a > LEAF:
            bit = _splitting_bit(sets, members, a, b, counts)
            if bit >= 0:
                middle = _partition(sets, members, a, b, bit)
                stack.append((middle, b))
                stack.append((a, middle))
    for s in range(t - 1, -1, -1):
        skip[s] = s + 1
        while skip[s] < t and begin[skip[s]] < end[s]:
            skip[s] = skip[skip[s]]
    return unions[:t], begin[:t], end[:t], skip[:t]


@jit
def is_simple(sets: Any, ray: int, need: int) -> bool:
    """Whether the ray has k - 1 zeros and no more: then any k - 2 of them are an edge, and no third ray is on it."""
    zeros = 0
    for w in range(sets.shape[1]):
        zeros += popcount(sets[ray, w])
    return zeros == need + 1


@jit
def has_witness(shared: Any, i: int, j: int, sets: Any, members: Any, tree: Any, recent: Any) -> Any:
    """Is there a third ray with all the zeros that rays i and j share? Returns (yes, steps taken)."""
    words = len(shared)
    for u in range(len(recent)):
        ray = recent[u]
        if ray >= 0 and ray != i and ray != j:
            inside = True
            for w in range(words):
                if sets[ray, w] & shared[w] != shared[w]:
                    inside = False
                    break
            if inside:
                recent[u], recent[u // 2] = recent[u // 2], ray
                return True, u
    unions, begin, end, skip = tree
    t, steps = 0, 0
    while t < len(skip):
        steps += 1
        inside = True
        for w in range(words):
            if unions[t, w] & shared[w] != shared[w]:
                inside = False
                break
        if not inside:
            t = skip[t]
            continue
        if skip[t] == t + 1:
            for a in range(begin[t], end[t]):
                ray = members[a]
                inside = ray != i and ray != j
                for w in range(words):
                    if sets[ray, w] & shared[w] != shared[w]:
                        inside = False
                        break
                if inside:
                    recent[len(recent) - 1] = ray
                    return True, steps
        t += 1
    return False, steps


@jit
def adjacent_chunk(
    sets: Any, need: int, left: Any, left_tree: Any, right: Any, right_tree: Any, every: Any, every_tree: Any,
    recent: Any, found: Any, block: int, node: int, budget: int,
) -> Any:  # fmt: skip
    """Go on looking for adjacent pairs (one ray of ``left``, one of ``right``) from (block, node).

    Writes pairs into ``found`` until it is nearly full or ``budget`` steps are spent; returns
    (pairs written, block, node), where block = number of nodes of ``left_tree`` means done.
    """
    words = sets.shape[1]
    shared = np.empty(words, np.uint64)
    l_unions, l_begin, l_end, l_skip = left_tree
    r_unions, r_begin, r_end, r_skip = right_tree
    count, steps = 0, 0
    while block < len(l_skip):
        if l_skip[block] != block + 1:  # not a leaf: its rays come with its leaves
            block += 1
            continue
        while node < len(r_skip):
            steps += 1
            common = 0
            for w in range(words):
                common += popcount(l_unions[block, w] & r_unions[node, w])
            if common < need:
                node = r_skip[node]
                continue
            if r_skip[node] == node + 1:
                room = (l_end[block] - l_begin[block]) * (r_end[node] - r_begin[node])
                if count + room > len(found) or steps > budget:
                    return count, block, node
                steps += room
                for a in range(l_begin[block], l_end[block]):
                    for b in range(r_begin[node], r_end[node]):
                        i, j = left[a], right[b]
                        common = 0
                        for w in range(words):
                            shared[w] = sets[i, w] & sets[j, w]
                            common += popcount(shared[w])
                        if common < need:
                            continue
                        witness = False
                        if not is_simple(sets, i, need) and not is_simple(sets, j, need):
                            witness, cost = has_witness(shared, i, j, sets, every, every_tree, recent)
                            steps += cost
                        if not witness:
                            found[count, 0], found[count, 1] = i, j
                            count += 1
            node += 1
        block, node = block + 1, 0
        if steps > budget:
            break
    return count, block, node


def adjacent_pairs(sets: Words, above: Ints, below: Ints, need: int) -> Iterator[Ints]:
    """What :func:`rayhull.conversion.adjacency.adjacent_pairs` gives, through trees; comes up for air often."""
    every = np.arange(len(sets))
    above, below = above.copy(), below.copy()
    trees = build_tree(sets, above), build_tree(sets, below), build_tree(sets, every)
    recent = np.full(RECENT, -1)
    found = np.empty((1 << 16, 2), np.int64)
    block, node = 0, 0
    while block < len(trees[0][3]):
        count, block, node = adjacent_chunk(
            sets, need, above, trees[0], below, trees[1], every, trees[2], recent, found, block, node, BUDGET
        )
        yield found[:count].copy()
