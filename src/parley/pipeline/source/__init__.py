"""The hubs' logs as a Spark data source, and the one way in which any part of the room reads them."""
