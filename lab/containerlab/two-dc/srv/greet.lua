-- A TCP service that says the host's name and then echoes every line.
core.register_service("greet", "tcp", function(applet)
  applet:send(os.getenv("HOSTNAME") .. "\n")
  while true do
    local line = applet:getline()
    if line == nil or line == "" then return end
    applet:send(line)
  end
end)
