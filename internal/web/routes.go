package web

// routes is every page. What is not here is a 404; files under /static/ are the only other addresses.
var routes = []route{
	{method: "GET", path: "/{$}", kind: plain, handler: home},
}
