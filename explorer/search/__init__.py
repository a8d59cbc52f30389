"""Design-space search: spaces, certified optima, the staged procedure, and Optuna studies."""
