"""Work in pieces, on as many threads as torch was told to use."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from clouds import torch_threads

from newkinds.clustering.threads import Threads


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_answers_are_in_the_order_of_the_pieces(number: int) -> None:
    def slow_at_first(piece: int) -> int:
        time.sleep(0.002 * (8 - piece))
        return piece**2

    with torch_threads(number), Threads() as threads:
        assert threads.number == number
        assert threads.map(slow_at_first, range(8)) == [0, 1, 4, 9, 16, 25, 36, 49]
        assert threads.map(slow_at_first, []) == []


@pytest.mark.parametrize("number", [1, 2, 3])
def test_pieces_are_spread_over_the_threads(number: int) -> None:
    together = threading.Barrier(number)

    def meet(_: int) -> tuple[int, int]:
        together.wait(timeout=20)  # passes only where `number` pieces are done at a time
        return threading.get_ident(), torch.get_num_threads()

    with torch_threads(number), Threads() as threads:
        done = threads.map(meet, range(2 * number))
    assert len({thread for thread, _ in done}) == number
    # None of them has helpers.
    assert {helpers for _, helpers in done} == {1}


def test_pieces_inside_a_piece_are_done_by_its_thread() -> None:
    with torch_threads(2), Threads() as threads:

        def outer(_: int) -> set[int]:
            return {threading.get_ident(), *threads.map(lambda _: threading.get_ident(), range(4))}

        assert [len(idents) for idents in threads.map(outer, range(6))] == [1] * 6


def test_a_single_piece_leaves_the_threads_to_the_pieces_inside() -> None:
    together = threading.Barrier(2)
    with torch_threads(2), Threads() as threads:
        inside = threads.map(lambda _: threads.map(lambda _: together.wait(timeout=20), range(2)), [0])
    assert sorted(inside[0]) == [0, 1]


@pytest.mark.parametrize("number", [1, 2])
def test_all_is_as_before_after_the_end_and_after_an_error(number: int) -> None:
    alive = threading.active_count()
    with torch_threads(number):
        with Threads() as threads:
            assert torch.get_num_threads() == 1
            threads.map(abs, range(4))
        assert torch.get_num_threads() == number
        with pytest.raises(ZeroDivisionError), Threads() as threads:
            threads.map(lambda piece: 1 // piece, [2, 1, 0])
        assert torch.get_num_threads() == number
        with pytest.raises(ZeroDivisionError), Threads() as threads:
            raise ZeroDivisionError
        assert torch.get_num_threads() == number
    assert threading.active_count() == alive


def test_the_same_threads_may_be_entered_again() -> None:
    with torch_threads(2):
        threads = Threads()
        for _ in range(3):
            with threads:
                assert threads.map(abs, [-1, -2, -3]) == [1, 2, 3]
            assert torch.get_num_threads() == 2


def test_threads_within_threads() -> None:
    with torch_threads(2):
        with Threads() as outer:
            with Threads() as inner:
                assert (outer.number, inner.number) == (2, 1)
                assert inner.map(abs, [-1, -2]) == [1, 2]
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
