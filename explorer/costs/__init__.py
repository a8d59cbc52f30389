"""Pure cost functions, one physical idea a file; they broadcast and know no chip and no UI."""
