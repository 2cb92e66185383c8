"""Which points of a grid are neighbours: the connected regions of some of them, and the middle of a region."""

from __future__ import annotations

from collections.abc import Collection

from compactctl.tuning.grid import Grid


class Regions:
    """Tells neighbours in a grid: points that are one step apart on one axis, values that no point has left out.

    A sample over several axes leaves out most neighbours: there all points are taken as one region.
    """

    def __init__(self, grid: Grid) -> None:
        self._scattered = grid.sampled and len(grid.axes) > 1
        ranks = [
            {place: rank for rank, place in enumerate(sorted({places[at] for places in grid.places}))}
            for at in range(len(grid.axes))
        ]
        self._places = [tuple(rank[place] for rank, place in zip(ranks, places, strict=True)) for places in grid.places]

    def of(self, numbers: Collection[int]) -> list[list[int]]:
        """Part some points of the grid, by their numbers, into connected regions; each is in order, as they are."""
        if self._scattered or not numbers:
            return [sorted(numbers)] if numbers else []
        left = {self._places[number]: number for number in sorted(numbers)}
        regions: list[list[int]] = []
        while left:
            places, number = next(iter(left.items()))
            del left[places]
            region, waiting = [number], [places]
            while waiting:
                here = waiting.pop()
                for at in range(len(here)):
                    for step in (-1, 1):
                        near = (*here[:at], here[at] + step, *here[at + 1 :])
                        if (found := left.pop(near, None)) is not None:
                            region.append(found)
                            waiting.append(near)
            regions.append(sorted(region))
        return regions

    def middle(self, region: Collection[int]) -> int:
        """Give the point of a region that is nearest to the mean of its places, of equally near ones the first."""
        axes = zip(*(self._places[number] for number in region), strict=True)
        means = [sum(axis) / len(region) for axis in axes]

        def off_middle(number: int) -> tuple[float, int]:
            return sum((at - mean) ** 2 for at, mean in zip(self._places[number], means, strict=True)), number

        return min(region, key=off_middle)
