"""Charts as plain HTML and SVG. Shapes stretch with the page; text is HTML and keeps its size."""
