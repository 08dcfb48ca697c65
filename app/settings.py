"""Settings: every limit and address, each with its unit, default and `POSEGATE_…` variable."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

Positive = Annotated[int, Field(gt=0)]


class Settings(BaseSettings):
    """What an operator may set. A name ends in its unit; a variable is the name in capitals behind `POSEGATE_`."""

    model_config = SettingsConfigDict(env_prefix="POSEGATE_", extra="ignore")

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    journal: str = Field(
        "sqlite:var/posegate.db", description="Where decisions are kept: `sqlite:PATH`, or `memory:` for trying."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level that is logged: debug, info, warning, error."
    )

    body_bytes_max: Positive = Field(4 * 1024 * 1024, description="Largest request body, bytes.")
    json_depth_max: Positive = Field(64, description="Deepest nesting of a request body, levels.")
    batch_commands_max: Positive = Field(10_000, description="Most commands of one batch.")
    payload_bytes_max: Positive = Field(1024, description="Largest event payload or `data`, bytes of compact JSON.")
    pose_bytes_max: Positive = Field(65_536, description="Largest pose of a candidate, bytes of compact JSON.")
    page_items_max: Positive = Field(1_000, description="Most items of one page of a list or of the history.")

    mailbox_commands_max: Positive = Field(65_536, description="Most commands that wait for one scene.")
    turn_commands_max: Positive = Field(4_096, description="About how many commands one turn decides together.")
    scene_idle_ms: Positive = Field(60_000, description="Time without traffic after which a scene leaves memory, ms.")
    scenes_open_max: Positive = Field(4_096, description="Most scenes held in memory; beyond, the idlest goes early.")
    hot_characters_max: Positive = Field(1_024, description="Most characters of a scene held as live values.")
    remains_max: Positive = Field(10_000, description="Most dead character ids a scene remembers one by one.")
    rigs_max: Positive = Field(1_000, description="Most rigs of one scene.")
    tick_hz: Positive = Field(60, description="Logic ticks a second, for readers: nothing here runs by it.")
    rollback_ticks: Positive = Field(64, description="How many sealed ticks a scene can roll back, ticks.")
    tick_window_ticks: Positive = Field(64, description="How far ahead of the sealed tick requests are held, ticks.")
    tick_requests_max: Positive = Field(4_096, description="Most requests held for one tick.")
    tick_deliveries_max: Positive = Field(
        65_536, description="Events delivered while one tick is open, after which it cannot be rolled back."
    )
    bundle_commands_max: Positive = Field(1_000, description="Most commands of one bundle.")
    receipts_max: Positive = Field(10_000, description="Most idempotency keys kept for one caller and scene.")
    receipts_ms: Positive = Field(600_000, description="How long an idempotency key is kept, ms of the scene's time.")
    checkpoint_decisions: Positive = Field(4_096, description="Decisions after which a scene is checkpointed.")
    history_decisions_max: Positive = Field(10_000_000, description="Most decisions of a scene kept to be read.")
    retry_after_s: Positive = Field(1, description="What `Retry-After` says when waiting helps, seconds.")
    shutdown_ms_max: Positive = Field(10_000, description="Longest time given to running requests at shutdown, ms.")
