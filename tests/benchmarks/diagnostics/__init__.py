"""The parts of diagnostics_calibration.py."""
