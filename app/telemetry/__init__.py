"""What operators watch: log lines and metrics."""
