"""How to train: batches of augmented images in, trained learners out."""
