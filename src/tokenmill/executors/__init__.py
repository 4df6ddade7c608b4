"""Where the tasks of a preparation run; these modules know only tasks."""
