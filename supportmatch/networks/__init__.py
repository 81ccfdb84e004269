"""The four networks of the paper: encoder f (with side channel t), decoder g, predictors and set-discriminator h."""
