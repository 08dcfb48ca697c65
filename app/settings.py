"""Settings: every limit and address, each with its unit, default and `POSEGATE_…` variable."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

Positive = Annotated[int, Field(gt=0)]


class Settings(BaseSettings):
    """What an operator may set. A name ends in its unit; a variable is the name in capitals behind `POSEGATE_`."""

    model_config = SettingsConfigDict(env_prefix="POSEGATE_", extra="ignore")

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    journal: str = Field(
        "sqlite:var/posegate.db",
        description="Where decisions are kept: `sqlite:PATH`, `nats://USER:PASSWORD@HOST,HOST/NAME?replicas=3` "
        "for many nodes, or `memory:` for trying.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level that is logged: debug, info, warning, error."
    )

    otlp_endpoint: str = Field(
        "",
        pattern=r"^(https?://[^\s/]\S*)?$",
        description="OpenTelemetry collector that traces go to: its OTLP/HTTP base address; empty traces nothing.",
    )
    trace_sample_ratio: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Share of the traces begun here that is kept, 0 to 1; a caller's choice is followed.",
    )
    traced_grants_max: Positive = Field(4_096, description="Most grants of a scene whose trace is remembered.")

    keys_file: Annotated[Path | None, BeforeValidator(lambda given: given or None)] = Field(
        None, description="API keys, hashed; `posegate key --add` makes it, and a change is noticed within a second."
    )
    keys: str = Field("", description="API keys, hashed: the same JSON as in the file.")
    session_s_max: Positive = Field(3_600, description="Longest time a session token may last, seconds.")
    caller_commands_per_s_max: Positive = Field(200_000, description="Most commands of one key, commands a second.")
    session_commands_per_s_max: Positive = Field(1_000, description="Most commands of one session, commands a second.")
    caller_refusals_per_minute_max: Positive = Field(
        600_000, description="Most refusals recorded for one key, refusals a minute."
    )
    session_refusals_per_minute_max: Positive = Field(
        600, description="Most refusals recorded for one session, refusals a minute."
    )

    body_bytes_max: Positive = Field(4 * 1024 * 1024, description="Largest request body, bytes.")
    json_depth_max: Positive = Field(64, description="Deepest nesting of a request body, levels.")
    json_values_max: Positive = Field(
        131_072, description="Most commas, lists and objects of a body, about its values; more would be long to read."
    )
    batch_commands_max: Positive = Field(10_000, description="Most commands of one batch.")
    payload_bytes_max: Positive = Field(1024, description="Largest event payload or `data`, bytes of compact JSON.")
    pose_bytes_max: Positive = Field(65_536, description="Largest pose of a candidate, bytes of compact JSON.")
    page_items_max: Positive = Field(1_000, description="Most items of one page of a list or of the history.")

    process_bytes_max: int = Field(
        0,
        ge=0,
        description="Memory at which commands are refused, bytes; 0 takes 3/4 of the machine's or its cgroup's.",
    )
    mailbox_commands_max: Positive = Field(65_536, description="Most commands that wait for one scene.")
    turn_commands_max: Positive = Field(4_096, description="About how many commands one turn decides together.")
    scene_idle_ms: Positive = Field(60_000, description="Time without traffic after which a scene leaves memory, ms.")
    scenes_open_max: Positive = Field(4_096, description="Most scenes held in memory; beyond, the idlest goes early.")
    hot_characters_max: Positive = Field(1_024, description="Most characters of a scene held as live values.")
    remains_max: Positive = Field(10_000, description="Most dead character ids a scene remembers one by one.")
    scenes_max: Positive = Field(1_000_000, description="Most scenes of the journal.")
    characters_max: Positive = Field(1_000_000, description="Most living characters of one scene.")
    character_bytes_max: Positive = Field(4_194_304, description="Largest character in its stored form, bytes.")
    rigs_max: Positive = Field(1_000, description="Most rigs of one scene.")
    tick_hz: Positive = Field(60, description="Logic ticks a second, for readers: nothing here runs by it.")
    rollback_ticks: Positive = Field(64, description="How many sealed ticks a scene can roll back, ticks.")
    tick_window_ticks: Positive = Field(64, description="How far ahead of the sealed tick requests are held, ticks.")
    tick_requests_max: Positive = Field(4_096, description="Most requests held for one tick.")
    scene_requests_max: Positive = Field(8_192, description="Most requests held for all ticks of one scene.")
    tick_deliveries_max: Positive = Field(
        65_536, description="Events delivered while one tick is open, after which it cannot be rolled back."
    )
    bundle_commands_max: Positive = Field(1_000, description="Most commands of one bundle.")
    receipts_max: Positive = Field(10_000, description="Most idempotency keys kept for one caller and scene.")
    receipts_ms: Positive = Field(600_000, description="How long an idempotency key is kept, ms of the scene's time.")
    checkpoint_decisions: Positive = Field(32_768, description="Decisions after which a scene is checkpointed.")
    history_decisions_max: Positive = Field(10_000_000, description="Most decisions of a scene kept to be read.")
    feed_decisions_max: Positive = Field(
        65_536, description="Most new decisions that are held for who watches, over all scenes; and as many read again."
    )
    feed_bytes_max: Positive = Field(
        67_108_864, description="Most bytes of new decisions that are held for who watches; and as many read again."
    )
    watchers_max: Positive = Field(
        8_192, description="Most who watch at a time, over all scenes; one more is told 503."
    )
    scene_watchers_max: Positive = Field(2_048, description="Most who watch one scene at a time; one more is told 503.")
    watch_beat_ms: Positive = Field(
        5_000, description="Pause after which who watches gets a sign of life, and is looked at again, ms."
    )
    follow_look_ms: Positive = Field(
        2_000,
        description="Time after which a watched scene is looked at for turns of other nodes that no hint told of, ms.",
    )
    fast_lane: Literal["on", "off"] = Field(
        "on",
        description="Whether single commands are answered beside the framework: on, off. Nothing else depends on it.",
    )
    connections_open_max: Positive = Field(10_000, description="Most open connections; one more is told 503.")
    first_byte_ms_max: Positive = Field(10_000, description="Longest time a new connection may say nothing, ms.")
    idle_ms_max: Positive = Field(75_000, description="Longest time a connection is kept open between requests, ms.")
    head_ms_max: Positive = Field(
        10_000, description="Longest time from a request's first byte to the end of its head, ms."
    )
    body_ms_max: Positive = Field(30_000, description="Longest time a request's body may take, ms.")
    write_ms_max: Positive = Field(30_000, description="Longest time an answer may lie unread before a reset, ms.")
    linger_ms_max: Positive = Field(
        2_000, description="Longest time what a client still sends is dropped, so that it can read its answer, ms."
    )
    target_bytes_max: Positive = Field(8_192, description="Longest target (path and query) of a request, bytes.")
    head_bytes_max: Positive = Field(32_768, description="Largest head of a request without its target, bytes.")
    header_items_max: Positive = Field(100, description="Most header fields of a request.")
    body_items_max: Positive = Field(
        16_384, description="Most pieces (chunks, packets) that a body may come in, items."
    )
    channel_commands_max: Positive = Field(
        1_024,
        description="Most commands of one channel under way; what comes beyond is not read until one is answered.",
    )
    channel_unread_bytes_max: Positive = Field(
        16_777_216, description="Most bytes that wait for the client of one channel to read; beyond, it is closed."
    )
    channel_requests_max: Positive = Field(
        8_192,
        description="Most requests for ticks whose answers one channel waits for; beyond, the oldest is forgotten.",
    )
    channel_caller_ms: Positive = Field(
        5_000, description="Pause after which it is looked again whether the caller of a channel may be there, ms."
    )
    ping_ms: Positive = Field(20_000, description="Silence of a channel's client after which it is pinged, ms.")
    pong_ms_max: Positive = Field(20_000, description="Longest time in which a ping must be answered, ms.")
    pipelined_requests_max: Positive = Field(
        16, description="Most requests of a connection that wait behind the one being answered."
    )
    bodies_bytes_max: Positive = Field(
        268_435_456, description="Most bytes of bodies without an answer, over all connections."
    )
    write_buffer_bytes_max: Positive = Field(
        65_536, description="Unread bytes of one connection from which on its answers wait."
    )
    unread_bytes_max: Positive = Field(
        268_435_456, description="Most unread bytes of answers that wait, over all connections."
    )
    drain_ms: Positive = Field(1_000, description="Time from SIGTERM, not ready any more, to the end of listening, ms.")
    scrub_pause_ms: Positive = Field(100, description="Pause before each read that looks for damage, ms.")
    scrub_interval_s: Positive = Field(3_600, description="Pause between two rounds that look for damage, seconds.")
    retry_after_s: Positive = Field(1, description="What `Retry-After` says when waiting helps, seconds.")
    shutdown_ms_max: Positive = Field(
        10_000, description="Longest time given to running requests at shutdown, and then to the journal, ms."
    )
