"""What the pipeline does with brokers, as far as it needs no Spark; these tests run beside those that do."""
