def console(request):
    """What every page needs to know about the console."""
    return {}
