"""One engine for all tables that follow from bronze: each is a spec, one runner builds them, and Spark computes."""
