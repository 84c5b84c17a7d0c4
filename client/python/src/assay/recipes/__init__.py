"""Ready-made captures with engines that people have: each is a short program around `assay.CaptureWriter`."""
