"""Workers to break: in this process or in one of their own, with every run noted in files."""
