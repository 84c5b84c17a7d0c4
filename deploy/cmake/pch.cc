// Gives the precompiled headers of AssayTargets.cmake a target to live in.
