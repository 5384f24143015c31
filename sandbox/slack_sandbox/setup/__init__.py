"""What a workspace is set up from: app manifests and seed files, read and checked."""
