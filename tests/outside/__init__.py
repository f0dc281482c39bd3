"""Extensions written outside the package, with its contract alone."""
