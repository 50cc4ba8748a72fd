"""params.yaml with its defaults, as files that DVC can depend on."""
