"""What a judge says about the working of correct completions."""
