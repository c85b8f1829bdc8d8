"""The JSON Schemas of agent/cli/schema, and what the program says held against them.

Schemas are open: members may be added. Here they are closed, so that no member goes undocumented."""
import copy
import functools
import json
import pathlib
import re

from jsonschema import Draft202012Validator

try:  # jsonschema 4.18 and newer
    from referencing import Registry, Resource
except ImportError:
    from jsonschema import RefResolver
    Registry = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "agent/cli/schema"
SCHEMAS = {file.name: json.loads(file.read_text()) for file in FOLDER.glob("*.json")}
VERBS = {name: schema for name, schema in SCHEMAS.items() if schema["title"].startswith("starling ")}
CHANGING = {name for name, schema in VERBS.items() if schema["properties"].get("data", {}).get("$ref") == "changed.json"}
ERROR_CODES = {"usage", *re.findall(r'  X\([A-Z_]+, "([a-z-]+)"', (ROOT / "base/err.h").read_text())} - {"ok"}


def closed(schema):
    """A copy in which no object has members that no schema names."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items()}
    has_members = "properties" in schema or "$ref" in schema
    if "object" in schema.get("type", ()) and has_members and "additionalProperties" not in schema:
        result["unevaluatedProperties"] = False
    return result


CLOSED = {name: closed(schema) for name, schema in SCHEMAS.items()}


@functools.cache
def validator(name):
    if Registry is None:
        return Draft202012Validator(CLOSED[name], resolver=RefResolver("", CLOSED[name], copy.copy(CLOSED)))
    known = [(known, Resource.from_contents(schema)) for known, schema in CLOSED.items()]
    return Draft202012Validator(CLOSED[name], registry=Registry().with_resources(known))


def name_of(arguments):
    """The schema of the verb that the arguments call; None: there is no such file."""
    words, skip = [], False
    for argument in map(str, arguments):
        if skip or argument.startswith("-"):
            skip = not skip and argument in ("-C", "--config", "--format")
            if not skip and words:
                break
            continue
        words.append(argument)
    whole = "-".join(map(str, arguments[:2])) + ".json"  # a verb may have a flag for its second word: rounds --continual
    return next((name for name in (whole, "-".join(words[:2]) + ".json", f"{words[0]}.json") if name in SCHEMAS), None)


def check_line(name, line):
    said = json.loads(line)
    if said.get("ok") is False:
        if said["error"]["code"] not in ERROR_CODES:
            raise AssertionError(f"{said['error']['code']} is no documented error.code")
        name = "envelope.json"
    error = next(validator(name).iter_errors(said), None)
    if error:
        raise AssertionError(f"{'.'.join(map(str, error.absolute_path))}: {error.message} (agent/cli/schema/{name})")


def check(arguments, out):
    """Holds what a command said against the schema of its verb; for a verb without one nothing but an error is right."""
    arguments = list(map(str, arguments))
    if not ("--format" in arguments and arguments[arguments.index("--format") + 1:][:1] == ["json"]):
        return
    name = name_of(arguments)
    for line in out.splitlines():
        if name is None and json.loads(line).get("ok") is not False:
            raise AssertionError(f"{' '.join(arguments)}: agent/cli/schema has no file for this verb")
        try:
            check_line(name, line)
        except AssertionError as error:
            raise AssertionError(f"starling {' '.join(arguments)}: {error}\n{line}") from None
