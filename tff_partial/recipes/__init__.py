"""The papers' tables and figures as runs (recipes/ has their settings)."""
