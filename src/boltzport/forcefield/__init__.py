"""Force fields as batched tensors."""
