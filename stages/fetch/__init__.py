"""Problems of a data set, into one table."""
