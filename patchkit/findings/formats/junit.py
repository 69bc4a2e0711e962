"""JUnit XML: a test suite a section, a failed test a finding, a skipped one a suppression."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from patchkit.findings.printable import printable

if TYPE_CHECKING:
    from patchkit.findings.answer import Section, SectionedReport
    from patchkit.findings.finding import Finding


def document(answer: SectionedReport) -> str:
    """Return the XML document."""
    root = ElementTree.Element("testsuites")
    root.extend(map(_suite, answer.sections))
    for element in root.iter():
        element.attrib |= {name: printable(value) for name, value in element.items()}
        element.text = "\n".join(map(printable, element.text.split("\n"))) if element.text else None
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _suite(section: Section) -> ElementTree.Element:
    report = section.report
    cases = len(report.findings) + len(report.suppressed)
    element = ElementTree.Element(
        "testsuite",
        name=section.name,
        tests=str(max(cases, 1)),
        failures=str(len(report.findings)),
        errors="0",
        skipped=str(len(report.suppressed) + bool(section.left_out)),
        time=f"{report.seconds:.3f}",
    )
    for finding in report.findings:
        failure = ElementTree.SubElement(
            _case(element, finding), "failure", type=finding.confidence.value, message=finding.message
        )
        steps = [f"{step.file}:{step.line}: {step.text}" for step in finding.path]
        failure.text = "\n".join([finding.expression, *steps, finding.guard])
    for suppressed in report.suppressed:
        ElementTree.SubElement(_case(element, suppressed), "skipped", message=suppressed.reason)
    if not cases:
        where = section.name.replace(" ", ".")
        case = ElementTree.SubElement(element, "testcase", classname=where, name=section.title)
        if section.left_out:
            ElementTree.SubElement(case, "skipped", message=section.left_out)
    return element


def _case(suite: ElementTree.Element, finding: Finding) -> ElementTree.Element:
    name = f"{finding.rule} {finding.function} line {finding.line}"
    return ElementTree.SubElement(suite, "testcase", classname=finding.file, name=name)
