"""`accord doctor`: what is installed, which agents start, and what is known about them."""

__all__ = ()
