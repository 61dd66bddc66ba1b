"""Checkpoints as files: a safetensors directory, one GGUF file, or a bare config.json; read by memory map."""
