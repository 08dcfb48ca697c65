"""The outcomes of every command in the order of the checks, written from contract sections 4 to 7 and 10 alone.

Left out is what only section 8 can bring about: `expired`, `rolled_back`, `too_early`, `holder_lost` and
`delivery_backlog`.
"""

_TOKEN = (
    "stale_life",
    "unknown_token",
    "stale_epoch",
    "already_completed",
    "already_cancelled",
    "already_failed",
    "stale_generation",
)

OUTCOMES: dict[str, tuple[str, ...]] = {
    "spawn": ("stale_life", "spawned"),
    "despawn": ("stale_life", "despawned"),
    "begin": ("stale_life", "unknown_layer", "unknown_state", "generation_conflict", "granted", "kept"),
    "complete": (*_TOKEN, "committed"),
    "cancel": (*_TOKEN, "cancelled"),
    "fail": (*_TOKEN, "failed"),
    "commit-parameters": (
        "stale_life",
        "duplicate_parameter",
        "non_finite_value",
        "unknown_parameter",
        "type_mismatch",
        "out_of_range",
        "missing_parameter",
        "stale_version",
        "committed",
    ),
    "play": (
        "stale_life",
        "unknown_layer",
        "retired_instance",
        "instance_out_of_range",
        "instance_open",
        "instances_full",
        "opened",
    ),
    "enqueue": (
        "stale_life",
        "unknown_kind",
        "retired_instance",
        "instance_out_of_range",
        "instances_full",
        "stale_epoch",
        "late_loop",
        "beyond_window",
        "duplicate",
        "queue_full",
        "accepted",
    ),
    "commit-loop": (
        "stale_life",
        "retired_instance",
        "instance_out_of_range",
        "instances_full",
        "loop_rollback",
        "delivered",
    ),
    "retire": ("stale_life", "unknown_instance", "retired_instance", "retired"),
    "ack": ("stale_life", "unknown_delivery", "acknowledged"),
    "request-graph": ("stale_life", "unknown_graph", "requested"),
    "submit-candidate": (
        "stale_life",
        "unknown_graph",
        "unknown_request",
        "stale_request",
        "already_committed",
        "missing_output",
        "evaluation_failed",
        "layer_busy",
        "committed",
    ),
    "withdraw-graph": (
        "stale_life",
        "unknown_graph",
        "unknown_request",
        "stale_request",
        "already_committed",
        "withdrawn",
    ),
}
