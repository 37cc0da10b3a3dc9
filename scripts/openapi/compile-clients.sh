#!/bin/sh
# Makes clients of an OpenAPI document with generators that are no npm packages, and compiles them: openapi-generator for
# Python and Go, oapi-codegen for Go, each with its default settings. Needs Python 3, Java 11 and Go, and downloads the
# generators with pip and go, so the tests do not run it. Usage: compile-clients.sh DOCUMENT FOLDER
set -eu
document=$(realpath "$1")
mkdir -p "$2"
cd "$2"

python3 -m venv tools
tools/bin/pip --quiet install openapi-generator-cli==7.26.0 pydantic python-dateutil urllib3
GOBIN="$PWD/tools/bin" go install github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2

for language in python go; do
  rm -rf "openapi-generator-$language"
  tools/bin/openapi-generator-cli generate -i "$document" -g "$language" -o "openapi-generator-$language" >generator.log 2>&1 ||
    { cat generator.log; exit 1; }
done
(cd openapi-generator-python && ../tools/bin/python -c "import openapi_client")
echo "openapi-generator, Python: compiles"
(cd openapi-generator-go && go mod tidy >../tidy.log 2>&1 && go build ./...)
echo "openapi-generator, Go: compiles"

rm -rf oapi-codegen
mkdir oapi-codegen
tools/bin/oapi-codegen -package api -generate types,client "$document" >oapi-codegen/api.go
(cd oapi-codegen && go mod init api >../init.log 2>&1 && go mod tidy >../tidy.log 2>&1 && go build ./...)
echo "oapi-codegen: compiles"
