"""The explorer: a page on which a circuit is drawn, stepped and changed, as one file or from a local server.

What the page is given is data: nothing of the user's machine but what was asked for. `data` says what that is, `page`
writes the single file, `views` answers about circuits too large to hand over, `server` lets one local user ask.
"""
