"""What `accord ask` asks the user at the terminal: permissions, forms, URLs."""
