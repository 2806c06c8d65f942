"""Valid random models: how they are drawn, judged, and made small when they fail."""
