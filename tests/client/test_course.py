from posegate_client.call import Call
from posegate_client.course import Again, Course, Pauses
from posegate_client.limits import Limits

LIMITS = Limits(pause_s_first=0.1, pause_s_max=1.0, attempts_max=8, deadline_s=30, attempt_s=10)


def drawn(share, count, asked=None):
    pauses = Pauses(LIMITS, lambda: share)
    return [round(pauses.next(asked), 3) for _ in range(count)]


def test_pauses_double_up_to_the_cap():
    assert drawn(1.0, 6) == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_pauses_are_drawn_between_half_and_whole():
    assert drawn(0.0, 3) == [0.05, 0.1, 0.2]


def test_what_the_service_asks_for_is_waited_at_least_but_no_longer_than_the_cap():
    assert drawn(0.0, 2, 0.5) == [0.5, 0.5]
    assert drawn(1.0, 1, 0.5) == [0.55]
    assert drawn(1.0, 2, 3600.0) == [1.0, 1.0]


def test_pauses_begin_anew_when_something_went_well():
    pauses = Pauses(LIMITS, lambda: 1.0)
    pauses.next()
    pauses.next()

    pauses.reset()

    assert pauses.next() == 0.1


def test_an_attempt_takes_no_longer_than_is_left():
    course = Course(Call("GET", "/v1/info", lambda reply: None), LIMITS, now=100.0)

    assert course.attempt_s(100.0) == 10
    assert course.attempt_s(125.0) == 5
    assert course.attempt_s(131.0) > 0


def test_a_read_is_sent_again_after_a_lost_answer():
    course = Course(Call("GET", "/v1/info", lambda reply: None), LIMITS, now=0.0, chance=lambda: 1.0)
    course.attempt_s(0.0)

    step = course.lost("reset", was_sent=True, now=1.0, cause=OSError())

    assert step == Again(0.1)
