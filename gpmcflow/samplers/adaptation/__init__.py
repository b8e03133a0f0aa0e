"""Pilots: short runs that find step sizes, frames and proposals, which are then frozen."""
