"""Learn QUBOs from data: problem -> p -> network -> A -> mask -> solver -> x*, x⁺ -> loss -> decode -> metric."""
