"""Our vector environment in the form that other libraries take; each file needs the library that it is named for."""
