# An installation by install.sh has a unit that would hide the package's, and a program beside the package's. In a package
# that is being upgraded there is a folder of its own already.
refuse_unpackaged() {
  unit=/etc/systemd/system/shruti.service
  [ -e "$unit" ] && [ ! -e /usr/lib/shruti/install.sh ] || return 0
  # A copy that an admin has made of the package's unit may stay.
  if grep -q '^ExecStart=/usr/bin/shruti ' "$unit" && [ ! -e /usr/bin/shruti ]; then return 0; fi
  echo "shruti: $unit belongs to an installation by install.sh. Run 'install.sh --uninstall' first: config and data stay." >&2
  return 1
}
