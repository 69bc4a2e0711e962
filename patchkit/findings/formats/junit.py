"""Write a report as JUnit XML: a failed test per finding, a skipped one per suppression."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.findings.finding import Finding
    from patchkit.findings.report import Report


def document(report: Report) -> str:
    """Return the XML document of an audit."""
    return write([suite("patchkit audit", report, f"{report.files_scanned} files")])


def write(suites: Iterable[ElementTree.Element]) -> str:
    """Return the XML document of several suites."""
    root = ElementTree.Element("testsuites")
    root.extend(suites)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def suite(name: str, report: Report, looked_at: str, left_out: str = "") -> ElementTree.Element:
    """Return a report as a suite.

    ``looked_at`` names the one test of a suite without findings, ``left_out`` says why it was skipped.
    """
    cases = len(report.findings) + len(report.suppressed)
    element = ElementTree.Element(
        "testsuite",
        name=name,
        tests=str(max(cases, 1)),
        failures=str(len(report.findings)),
        errors="0",
        skipped=str(len(report.suppressed) + bool(left_out)),
        time=f"{report.seconds:.3f}",
    )
    for finding in report.findings:
        failure = ElementTree.SubElement(
            _case(element, finding), "failure", type=finding.confidence.value, message=finding.message
        )
        steps = [f"{step.file}:{step.line}: {step.text}" for step in finding.path]
        failure.text = "\n".join([finding.expression, *steps, finding.guard])
    for entry in report.suppressed:
        ElementTree.SubElement(_case(element, entry.finding), "skipped", message=entry.reason)
    if not cases:
        case = ElementTree.SubElement(element, "testcase", classname=name.replace(" ", "."), name=looked_at)
        if left_out:
            ElementTree.SubElement(case, "skipped", message=left_out)
    return element


def _case(suite: ElementTree.Element, finding: Finding) -> ElementTree.Element:
    name = f"{finding.rule} {finding.function} line {finding.line}"
    return ElementTree.SubElement(suite, "testcase", classname=finding.file, name=name)
