"""Columns as arrays of whole numbers, and what is counted of groups of rows.

Texts are numbers here: each is looked up once, and all that follows compares numbers. Where something is not known, a
text has the number -1, and a moment or a count is ``UNKNOWN``. Moments are microseconds since 1970.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parley.pipeline.gold.measures import PERCENTILES

Array = np.ndarray[Any, Any]
Columns = dict[str, Any]
"""Arrow arrays of one length by the names of their columns."""

UNKNOWN: Final = int(np.iinfo(np.int64).min)
_LARGEST: Final = int(np.iinfo(np.int64).max)
_MOMENT: Final = pa.timestamp("us", tz="UTC")
_MS_US: Final = 1_000


class Words:
    """Few texts that come again and again. Each gets its number when it comes first."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, column: Any) -> Array:
        """The number of each text; -1 for null."""
        coded = pc.dictionary_encode(column)
        parts: list[Any] = coded.chunks if isinstance(coded, pa.ChunkedArray) else [coded]
        return np.concatenate([np.empty(0, np.int32), *(self._part(part) for part in parts)])

    def _part(self, coded: Any) -> Array:
        known = [self._numbers.setdefault(text, len(self._numbers)) for text in coded.dictionary.to_pylist()]
        return np.array([*known, -1], np.int32)[_filled(coded.indices, -1)]

    def column(self, numbers: Array) -> Any:
        """The texts of these numbers. They stay numbers until somebody writes them."""
        return _column(numbers, pa.array(list(self._numbers), pa.string()))


class Names:
    """Many texts of which each stands for something of its own: they lie in Arrow, all known from the beginning."""

    def __init__(self, column: Any) -> None:
        self._texts: Any = pc.drop_null(pc.unique(column))

    def numbers(self, column: Any) -> Array:
        """The number of each text; -1 for null, and for one that is not among them."""
        return _filled(pc.index_in(column, value_set=self._texts, skip_nulls=True), -1)

    def column(self, numbers: Array) -> Any:
        """The texts of these numbers."""
        return _column(numbers, self._texts)


def _column(numbers: Array, texts: Any) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32), mask=numbers < 0), texts)


class Keys:
    """Things that are named by a hub and a text: which of them is it?"""

    def __init__(self, hubs: Array, texts: Array) -> None:
        """One thing for each hub and text, in this order."""
        self._span = int(texts.max(initial=0)) + 1
        named = self._named(hubs, texts)
        self._order: Array = np.argsort(named, kind="stable")
        self._sorted: Array = named[self._order]

    def find(self, hubs: Array, texts: Array) -> Array:
        """The place of each thing, or -1 if it is not there."""
        if not len(self._sorted):
            return np.full(len(hubs), -1, np.int64)
        wanted = self._named(hubs, texts)
        place = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        may_be = (texts >= 0) & (texts < self._span)
        return np.where((self._sorted[place] == wanted) & may_be, self._order[place], -1)

    def _named(self, hubs: Array, texts: Array) -> Array:
        return hubs.astype(np.int64) * self._span + texts


class Groups:
    """Rows in groups. A row whose group is -1 is in none."""

    def __init__(self, of: Array, size: int) -> None:
        self.size = size
        self.of = of
        self._of = np.where(of < 0, size, of) if (of < 0).any() else of

    def count(self, where: Array | None = None) -> Array:
        """How many rows each group has, or how many that fulfil a condition."""
        chosen = self._of if where is None else self._of[where]
        return np.bincount(chosen, minlength=self.size + 1)[: self.size]

    def total(self, values: Array) -> Array:
        """The sum of the values."""
        return np.bincount(self._of, values, minlength=self.size + 1)[: self.size].astype(np.int64)

    def least(self, values: Array) -> Array:
        """The smallest known value of each group."""
        found = np.full(self.size + 1, _LARGEST)
        known = values != UNKNOWN
        np.minimum.at(found, self._of[known], values[known])
        return np.where(found == _LARGEST, UNKNOWN, found)[: self.size]

    def most(self, values: Array) -> Array:
        """The largest known value of each group."""
        found = np.full(self.size + 1, UNKNOWN)
        np.maximum.at(found, self._of, values)
        return found[: self.size]

    def first(self, order: Array, where: Array | None = None) -> Array:
        """The row of each group that comes first in this order, or -1; of those that fulfil a condition, if given."""
        return self._end(order, where, np.minimum, _LARGEST)

    def last(self, order: Array, where: Array | None = None) -> Array:
        """The row of each group that comes last."""
        return self._end(order, where, np.maximum, UNKNOWN)

    def _end(self, order: Array, where: Array | None, better: np.ufunc, worst: int) -> Array:
        best = np.full(self.size + 1, worst)
        if where is None:
            better.at(best, self._of, order)
            rows = np.flatnonzero(order == best[self._of])
        else:
            better.at(best, self._of[where], order[where])
            rows = np.flatnonzero(where & (order == best[self._of]))
        ends = np.full(self.size + 1, -1)
        ends[self._of[rows]] = rows
        return ends[: self.size]

    def distinct(self, numbers: Array) -> Array:
        """How many different numbers each group has; -1 is none."""
        known = numbers >= 0
        pairs = np.unique(_combined(self._of[known], numbers[known]), return_index=True)[1]
        return np.bincount(self._of[known][pairs], minlength=self.size + 1)[: self.size]

    def latencies(self, values: Array) -> Columns:
        """How many latencies are known, their percentiles and their maximum, as Spark's ``percentile`` counts them."""
        known = values != UNKNOWN
        of, among = self._of[known], values[known]
        ordered = among[np.lexsort((among, of))].astype(np.float64)
        sizes = np.bincount(of, minlength=self.size + 1)
        starts = (np.cumsum(sizes) - sizes)[: self.size]
        sizes = sizes[: self.size]
        measured = {name: _percentile(ordered, starts, sizes, share) for name, share in PERCENTILES.items()}
        shares = {name: ratios(each) for name, each in measured.items()}
        return {"measured": whole(sizes), **shares, "max_ms": whole(self.most(values))}


def grouped(*keys: Array) -> tuple[Groups, Array]:
    """The rows that share the numbers of some columns, and one row of each group."""
    _, first, of = np.unique(_combined(*keys), return_index=True, return_inverse=True)
    return Groups(of, len(first)), first


def named(hubs: Array, names: Array) -> Groups:
    """The rows that are of one thing: with one hub alone, the numbers of the names are those of the groups."""
    if len(hubs) and hubs.min() == hubs.max():
        return Groups(names, int(names.max()) + 1)
    return grouped(hubs, names)[0]


def _combined(*keys: Array) -> Array:
    """One number for each row, the same for those that share all keys."""
    combined, size = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        if not len(key):
            continue
        low = int(key.min())
        span = int(key.max()) - low + 1
        if size * span > _LARGEST // 2:
            combined = np.unique(combined, return_inverse=True)[1]
            size = int(combined.max()) + 1
        combined, size = combined * span + (key - low), size * span
    return combined


def _percentile(ordered: Array, starts: Array, sizes: Array, share: float) -> Array:
    """The value at this share of each group's values, between its two neighbours; NaN if there are none."""
    if not len(ordered):
        return np.full(len(sizes), np.nan)
    place = (np.maximum(sizes, 1) - 1) * share
    low, high = np.floor(place), np.ceil(place)
    last = len(ordered) - 1
    below = ordered[np.minimum(starts + low.astype(np.int64), last)]
    above = ordered[np.minimum(starts + high.astype(np.int64), last)]
    return np.where(sizes > 0, below + (place - low) * (above - below), np.nan)


def latency_ms(start: Array, end: Array) -> Array:
    """Milliseconds from one moment to the other; unknown where one is, or where the clock ran backwards."""
    between = end // _MS_US - start // _MS_US
    return np.where((start != UNKNOWN) & (end != UNKNOWN) & (between >= 0), between, UNKNOWN)


def picked(values: Array, rows: Array) -> Array:
    """The values of these rows; unknown for row -1."""
    return np.where(rows >= 0, values[rows], UNKNOWN) if len(values) else np.full(len(rows), UNKNOWN)


def picked_number(numbers: Array, rows: Array) -> Array:
    """The same for the numbers of texts."""
    return np.where(rows >= 0, numbers[rows], -1) if len(numbers) else np.full(len(rows), -1)


def joined(parts: list[Array]) -> Array:
    """Arrays one after the other."""
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def read_numbers(column: Any) -> Array:
    """A column of whole numbers; null is unknown."""
    return _filled(pc.cast(column, pa.int64()), UNKNOWN)


def read_moments(column: Any) -> Array:
    """A column of moments; null is unknown."""
    return read_numbers(pc.cast(column, _MOMENT))


def read_flags(column: Any) -> Array:
    """A column of truths; null is none."""
    filled = pc.fill_null(column, False)
    return filled.to_numpy() if isinstance(filled, pa.ChunkedArray) else filled.to_numpy(zero_copy_only=False)


def whole(values: Array) -> Any:
    """Whole numbers for a table."""
    return pa.array(values.astype(np.int64), mask=values == UNKNOWN)


def moments(values: Array) -> Any:
    """Moments for a table."""
    return whole(values).cast(_MOMENT)


def ratios(values: Array) -> Any:
    """Broken numbers for a table; NaN is null."""
    return pa.array(values, mask=np.isnan(values))


def _filled(column: Any, missing: int) -> Array:
    return pc.fill_null(column, missing).to_numpy()
