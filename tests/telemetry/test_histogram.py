"""A histogram counts what was measured below each bound, as Prometheus wants it."""

from app.telemetry.histogram import COUNTS, DISK_SECONDS, REQUEST_SECONDS, Histogram


def test_a_bound_counts_what_equals_it_and_everything_below():
    histogram = Histogram((1.0, 2.5))

    for number in (0.5, 1.0, 2.0, 7.0):
        histogram.observe(number)

    assert histogram.buckets() == [("1", 2.0), ("2.5", 3.0), ("+Inf", 4.0)]
    assert histogram.total == 10.5


def test_nothing_measured_is_a_family_of_zeros():
    assert Histogram((1.0,)).buckets() == [("1", 0.0), ("+Inf", 0.0)]


def test_bounds_rise_and_are_written_without_a_tail_of_digits():
    for bounds in (COUNTS, DISK_SECONDS, REQUEST_SECONDS):
        assert list(bounds) == sorted(set(bounds))
        assert [float(bound) for bound, _ in Histogram(bounds).buckets()[:-1]] == list(bounds)
        assert max(len(bound) for bound, _ in Histogram(bounds).buckets()) <= 7
