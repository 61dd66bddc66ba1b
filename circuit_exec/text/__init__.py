"""From messages to token ids and back: tokenizers, chat templates, text that streams."""
